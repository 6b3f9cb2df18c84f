"""Everything that speaks to PostgreSQL, and the embedded PostgreSQL itself."""
