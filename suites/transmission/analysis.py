"""From bundles to what they say of messages. Pure functions; imports no sibling package."""
