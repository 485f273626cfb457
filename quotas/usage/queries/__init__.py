"""Every question about usage: one module per kind of question, each with a bounded number of queries."""
