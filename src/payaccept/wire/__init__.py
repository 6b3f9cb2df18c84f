"""The protocol: pure, shared by the service and the SDK."""
