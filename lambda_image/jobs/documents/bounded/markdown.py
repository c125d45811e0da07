"""Markdown of any size: its parser takes time by the square of what is nested."""

from jobs.documents.prose import read_markdown_document as read

__all__ = ["read"]
