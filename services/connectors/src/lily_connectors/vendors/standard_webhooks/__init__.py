"""Standard Webhooks: any sender that signs by that specification."""
