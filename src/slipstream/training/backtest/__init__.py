"""How policies would have traded in days that neither training nor ranking saw."""
