package consumer

// ReservedDestination reports whether messages to a subject would act on the server itself, so that nothing may be
// delivered there on somebody's behalf.
func ReservedDestination(subj string) bool { return reservedDestination(subj) }
