"""The ranking table as Markdown, figure and page."""
