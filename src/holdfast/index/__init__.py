"""Indexes over row ids: scalar and vector, each answering for a row only while its version is the one indexed."""
