"""The whole stack, judged from outside: real servers, real clients, kills."""
