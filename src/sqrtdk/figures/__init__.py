"""The toolkit for figures: panels, lines, styles and saving. Knows no experiment."""
