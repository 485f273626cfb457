"""What the trial of a change has shown: counts, the verdict against its bars, and the job that ends it by itself.

The states of a change and who may move it are in `quotas.changes`; here is only read, but for the job.
"""
