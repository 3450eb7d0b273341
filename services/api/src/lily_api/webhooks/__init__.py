"""Vendors' calls: the URL names the connector, the vendor's signature decides, the vendor's module normalises."""
