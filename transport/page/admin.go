package page

import (
	"embed"

	"roomd/transport/page/uplot"
)

// adminAssets are the files of the operators' page. index.html is what a browser gets at /admin.
//
//go:embed admin
var adminAssets embed.FS

// sharedAssets are the files of the players' page that the operators' page uses as well.
var sharedAssets = []string{"assets/page.css", "assets/dom.js", "assets/login.js", "assets/icon.svg"}

// Admin returns the handler of the operators' page: /admin, and its files below that. The files hold
// no secret. What the page shows comes from the operators' API, which it expects at /api on the same
// address.
func Admin() *Handler {
	h := &Handler{files: make(map[string]file)}
	for _, name := range sharedAssets {
		h.addAll("/admin/", assets, name)
	}
	h.addAll("/admin/", adminAssets, "admin/*")
	h.addAll("/admin/", uplot.Files, "*") // what draws the charts
	index := h.files["/admin/index.html"]
	h.files["/admin"], h.files["/admin/"] = index, index
	delete(h.files, "/admin/index.html")
	return h
}
