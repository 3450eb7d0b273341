"""`/v1/subscriptions`."""

from __future__ import annotations

from fastapi import APIRouter, Response

from lily_api import paging
from lily_api.auth.permissions import DeliveriesWrite, SubscriptionsRead, SubscriptionsWrite
from lily_api.schemas import ObjectId, Page
from lily_api.services import ServicesDep
from lily_api.subscriptions import service
from lily_api.subscriptions.schemas import (
    Replayed,
    SecretRotate,
    SecretRotated,
    SubscriptionCreate,
    SubscriptionCreated,
    SubscriptionPatch,
    SubscriptionView,
    TestSent,
)

router = APIRouter(prefix="/v1/subscriptions", tags=["subscriptions"])


@router.post("", status_code=201, summary="Create a subscription")
async def create_subscription(
    principal: SubscriptionsWrite, lily: ServicesDep, body: SubscriptionCreate, response: Response
) -> SubscriptionCreated:
    """Every matching change from now on is delivered. The signing secret is in this answer and nowhere else."""
    subscription, secret = await service.create(lily, principal, body)
    response.headers["Cache-Control"] = "no-store"
    view = SubscriptionView.model_validate(subscription)
    return SubscriptionCreated.model_validate({**view.model_dump(), "config": view.sink, "secret": secret})


@router.get("", summary="List subscriptions")
async def list_subscriptions(
    principal: SubscriptionsRead, lily: ServicesDep, limit: paging.Limit = 100, cursor: paging.Cursor = None
) -> Page[SubscriptionView]:
    """Newest first, the managed one included."""
    rows = await service.list_page(lily, principal, paging.decode_time_id(cursor), limit)
    return Page[SubscriptionView](
        items=[SubscriptionView.model_validate(row) for row in rows],
        next_cursor=paging.encode_time_id(rows[-1].created_at, rows[-1].id) if len(rows) == limit else None,
    )


@router.get("/{subscription_id}", summary="Read a subscription")
async def get_subscription(
    principal: SubscriptionsRead, lily: ServicesDep, subscription_id: ObjectId
) -> SubscriptionView:
    return SubscriptionView.model_validate(await service.get(lily, principal, subscription_id))


@router.patch("/{subscription_id}", summary="Change a subscription")
async def patch_subscription(
    principal: SubscriptionsWrite, lily: ServicesDep, subscription_id: ObjectId, body: SubscriptionPatch
) -> SubscriptionView:
    return SubscriptionView.model_validate(await service.patch(lily, principal, subscription_id, body))


@router.delete("/{subscription_id}", status_code=204, summary="Delete a subscription")
async def delete_subscription(
    principal: SubscriptionsWrite, lily: ServicesDep, subscription_id: ObjectId
) -> None:
    """What is pending is cancelled. Past deliveries can still be read."""
    await service.delete(lily, principal, subscription_id)


@router.post("/{subscription_id}/pause", summary="Pause a subscription")
async def pause_subscription(
    principal: SubscriptionsWrite, lily: ServicesDep, subscription_id: ObjectId
) -> SubscriptionView:
    """Changes are kept and delivered, in order, once it is resumed."""
    return SubscriptionView.model_validate(await service.pause(lily, principal, subscription_id))


@router.post("/{subscription_id}/resume", summary="Resume a subscription")
async def resume_subscription(
    principal: SubscriptionsWrite, lily: ServicesDep, subscription_id: ObjectId
) -> SubscriptionView:
    """Also re-enables one that was disabled because its receiver answered 410."""
    return SubscriptionView.model_validate(await service.resume(lily, principal, subscription_id))


@router.post("/{subscription_id}/rotate-secret", status_code=201, summary="Rotate the signing secret")
async def rotate_secret(
    principal: SubscriptionsWrite,
    lily: ServicesDep,
    subscription_id: ObjectId,
    body: SecretRotate,
    response: Response,
) -> SecretRotated:
    """During the grace every delivery carries two signatures, so that the receiver can change over."""
    secret, until = await service.rotate_secret(lily, principal, subscription_id, body)
    response.headers["Cache-Control"] = "no-store"
    return SecretRotated(secret=secret, previous_until=until)


@router.post("/{subscription_id}/test", status_code=202, summary="Send a test event")
async def send_test(principal: SubscriptionsWrite, lily: ServicesDep, subscription_id: ObjectId) -> TestSent:
    """An event of type `lily.subscription.test`, delivered like any other whatever the filters say."""
    return TestSent(delivery_id=await service.send_test(lily, principal, subscription_id))


@router.post("/{subscription_id}/replay-dead", status_code=202, summary="Try all dead deliveries again")
async def replay_dead(principal: DeliveriesWrite, lily: ServicesDep, subscription_id: ObjectId) -> Replayed:
    """In order per asset, under their old ids, with a new set of attempts each."""
    return Replayed(replayed=await service.replay_dead(lily, principal, subscription_id))
