"""HTTP/2 (RFC 9113) as far as a server of unary gRPC calls needs it, on an event loop, without a task per call."""
