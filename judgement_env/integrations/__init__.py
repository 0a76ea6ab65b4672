"""Adapters to other libraries, one file each; each needs the extra of its name installed."""
