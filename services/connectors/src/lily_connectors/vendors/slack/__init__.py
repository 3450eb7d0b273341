"""Slack: notices as messages in a channel, through an incoming-webhook URL."""
