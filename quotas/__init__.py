"""What is limited, and what happened: the platform's domain on PostgreSQL. Knows nothing of HTTP.

A room is an aggregate (policies, changes, recommendations) or a stage in the data flow (publishing, usage). Inside
it, writes are plain verbs and reads are in `queries`. A small aggregate is one file here. Whatever changes the
configuration goes through a draft (`changes.draft`).
"""
