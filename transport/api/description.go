package api

import (
	_ "embed"
	"net/http"
)

//go:embed openapi.yaml
var openAPI []byte

// describe is GET /api/openapi.yaml.
func describe(q *request) (*answer, error) {
	if _, err := q.query(); err != nil {
		return nil, err
	}
	return &answer{status: http.StatusOK, kind: "application/yaml", cache: "public, max-age=3600", body: openAPI}, nil
}
