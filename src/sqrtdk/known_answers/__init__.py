"""Small attention cases with exact answers, for any implementation; see docs/known-answers.md."""
