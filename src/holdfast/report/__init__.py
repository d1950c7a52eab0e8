"""Reports as one HTML file each: a page that needs no network, with charts drawn as SVG."""
