"""Plans of compaction, clustering, vacuum and checks."""
