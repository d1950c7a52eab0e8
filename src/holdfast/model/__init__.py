"""The records that formats, plans and engines share."""
