"""What measuring over HTTP needs: servers on one core, and a client that costs little."""
