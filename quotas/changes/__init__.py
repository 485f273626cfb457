"""How the configuration changes, from an edit to a revision, and back.

An edit is written inside a draft, which checks that the result can be enforced and guards against cuts. An edit that
may not be written yet becomes a proposal and is stored as a change: approved, tried out, scheduled, then promoted or
dropped. Every edit that is written is one numbered revision, which can be reverted or rolled back to.
"""
