-- The shop: customers order, orders are paid. The same rows every time.
create schema marts;
comment on schema public is 'What the shop works with';
comment on schema marts is 'What the shop reports from, filled by the nightly job';

create table customers (
    customer_id integer primary key,
    email text not null unique,
    full_name text not null,
    country char(2) not null,
    registered_on date not null
);
comment on table customers is 'Everyone who ever registered';
comment on column customers.email is 'Login and address for invoices';
comment on column customers.country is 'ISO 3166-1 alpha-2';

create table orders (
    order_id integer primary key,
    customer_id integer not null references customers,
    ordered_at timestamptz not null,
    status text not null check (status in ('open', 'shipped', 'returned'))
);
comment on table orders is 'One row per order';

create table payments (
    payment_id integer primary key,
    order_id integer not null references orders,
    amount numeric(12, 2) not null,
    method text not null,
    paid_at timestamptz not null
);
comment on table payments is 'One row per payment; an order may be paid in parts';
comment on column payments.amount is 'In euros';

create table marts.daily_revenue (
    day date,
    country text,
    revenue numeric(22, 2)
);
comment on table marts.daily_revenue is 'What was earned, by day and country; rewritten every night';
comment on column marts.daily_revenue.revenue is 'In euros, without returned orders';

create view open_orders as
    select order_id, customer_id, ordered_at from orders where status = 'open';

insert into customers
select i,
       lower(first.name) || '.' || i || '@example.com',
       first.name || ' ' || last.name,
       (array['DE', 'FR', 'ES', 'IT', 'PL'])[1 + i % 5],
       date '2023-01-01' + i % 900
from generate_series(1, 2000) as i
join unnest(array['Ada', 'Grace', 'Alan', 'Edsger', 'Barbara', 'Donald', 'Frances']) with ordinality as first (name, n)
    on first.n = 1 + i % 7
join unnest(array['Meyer', 'Durand', 'Garcia', 'Rossi', 'Nowak']) with ordinality as last (name, n)
    on last.n = 1 + i % 5;

insert into orders
select i,
       1 + (i::bigint * 7919 % 2000)::int,
       timestamptz '2025-06-01 00:00:00+00' + i * interval '7 minutes',
       (array['shipped', 'shipped', 'shipped', 'open', 'returned'])[1 + i % 5]
from generate_series(1, 10000) as i;

insert into payments
select i,
       1 + i % 10000,
       round((5 + i::bigint * 104729 % 20000 / 100.0)::numeric, 2),
       (array['card', 'transfer', 'voucher'])[1 + i % 3],
       timestamptz '2025-06-01 01:00:00+00' + i * interval '6 minutes'
from generate_series(1, 12000) as i;

analyze;
