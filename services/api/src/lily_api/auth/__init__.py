"""Who is asking, and what they may do. Other domains' endpoints use the types of `permissions` only."""
