"""One tensor, many questions: the study behind a page, engines compared, recipes ranked."""
