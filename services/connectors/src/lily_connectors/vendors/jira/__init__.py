"""Jira Cloud: notices as tickets, one open ticket for each thing that can be the matter with an asset."""
