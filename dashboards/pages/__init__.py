"""One module per page, or a package with the page's view, forms and figures."""
