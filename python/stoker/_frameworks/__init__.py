"""What other frameworks call: each module imports its framework, and nothing else imports it."""
