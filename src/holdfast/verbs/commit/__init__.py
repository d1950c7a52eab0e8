"""The commit loop, rebase, transactions and retries."""
