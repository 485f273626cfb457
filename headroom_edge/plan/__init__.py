"""What the compiler and the enforcer must agree on: subjects, paths and routes."""
