"""Business verbs: one async function each; they own the transactions."""
