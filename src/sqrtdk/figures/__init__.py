"""The toolkit that figures are drawn with."""
