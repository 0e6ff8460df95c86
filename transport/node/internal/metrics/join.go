package metrics

import "reflect"

// Join returns a trace that calls the functions of both. T is a struct of functions without results; nil functions
// are skipped. Neither trace is changed.
func Join[T any](first, second *T) *T {
	if second == nil {
		return first
	}
	both := *first
	all, more := reflect.ValueOf(&both).Elem(), reflect.ValueOf(second).Elem()
	for i := range all.NumField() {
		one, other := reflect.ValueOf(first).Elem().Field(i), more.Field(i)
		switch {
		case other.IsNil():
		case one.IsNil():
			all.Field(i).Set(other)
		default:
			all.Field(i).Set(reflect.MakeFunc(one.Type(), func(args []reflect.Value) []reflect.Value {
				one.Call(args)
				return other.Call(args)
			}))
		}
	}
	return &both
}
