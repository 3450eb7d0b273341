"""`/v1/keys`."""

from __future__ import annotations

from fastapi import APIRouter, Response

from lily_api import paging
from lily_api.auth.permissions import KeysRead, KeysWrite
from lily_api.keys import service
from lily_api.keys.models import ApiKey
from lily_api.keys.schemas import KeyCreate, KeyCreated, KeyRotate, KeyView
from lily_api.schemas import ObjectId, Page
from lily_api.services import ServicesDep

router = APIRouter(prefix="/v1/keys", tags=["keys"])


def _shown(key: ApiKey, text: str, response: Response) -> KeyCreated:
    response.headers["Cache-Control"] = "no-store"
    return KeyCreated(**KeyView.model_validate(key).model_dump(), key=text)


@router.post("", status_code=201, summary="Create an API key")
async def create_key(
    principal: KeysWrite, lily: ServicesDep, body: KeyCreate, response: Response
) -> KeyCreated:
    """The key is in this answer and nowhere else. It can carry only scopes that its creator has."""
    return _shown(*await service.create(lily, principal, body), response)


@router.get("", summary="List API keys")
async def list_keys(
    principal: KeysRead, lily: ServicesDep, limit: paging.Limit = 100, cursor: paging.Cursor = None
) -> Page[KeyView]:
    """Newest first, revoked and expired ones included."""
    rows = await service.list_page(lily, principal, paging.decode_time_id(cursor), limit)
    return Page[KeyView](
        items=[KeyView.model_validate(row) for row in rows],
        next_cursor=paging.encode_time_id(rows[-1].created_at, rows[-1].id) if len(rows) == limit else None,
    )


@router.get("/{key_id}", summary="Read an API key")
async def get_key(principal: KeysRead, lily: ServicesDep, key_id: ObjectId) -> KeyView:
    return KeyView.model_validate(await service.get(lily, principal, key_id))


@router.post("/{key_id}/rotate", status_code=201, summary="Rotate an API key")
async def rotate_key(
    principal: KeysWrite, lily: ServicesDep, key_id: ObjectId, body: KeyRotate, response: Response
) -> KeyCreated:
    """A new key with the same name and scopes; the old one stays valid for `grace_seconds`."""
    return _shown(*await service.rotate(lily, principal, key_id, body), response)


@router.delete("/{key_id}", status_code=204, summary="Revoke an API key")
async def revoke_key(principal: KeysWrite, lily: ServicesDep, key_id: ObjectId) -> None:
    """From now on the key is answered with 401. Revoking again changes nothing."""
    await service.revoke(lily, principal, key_id)
