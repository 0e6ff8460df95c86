package api

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// query returns the parameters of the query, each of which may be given once unless it is a list.
// It refuses others than these.
func (q *request) query(names ...string) (url.Values, error) {
	values, err := url.ParseQuery(q.URL.RawQuery)
	if err != nil {
		return nil, badField("query", "cannot be read: %v", err)
	}
	for name, given := range values {
		switch one := slices.Contains(names, name); {
		case !one && !slices.Contains(names, name+"…"):
			return nil, badField(excerpt(name), "is no parameter of this; there are: %s", strings.Join(names, ", "))
		case one && len(given) > 1:
			return nil, badField(name, "is there twice")
		}
	}
	return values, nil
}

// number returns a parameter that is a whole number, or the default without it.
func number(values url.Values, name string, otherwise, least, most int) (int, error) {
	if !values.Has(name) {
		return otherwise, nil
	}
	n, err := strconv.ParseUint(values.Get(name), 10, 31)
	if err != nil || int(n) < least || int(n) > most {
		return 0, badField(name, "must be a whole number from %d to %d, not %q", least, most, excerpt(values.Get(name)))
	}
	return int(n), nil
}
