"""Enforcement: policies as the engines that obey them ask for them, answered from memory."""
