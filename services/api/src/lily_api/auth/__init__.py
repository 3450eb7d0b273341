"""Who is asking, and what they may do. Endpoints use the types of `permissions`; nothing else here is theirs."""
