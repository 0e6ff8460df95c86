// What the other modules need of the document.

/** @returns {any} the element with that id */
export const $ = (id) => document.getElementById(id)

/** Makes an element. Children are elements or texts, never markup. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value)
  element.append(...children)
  return element
}

/** A user's name in a direction of its own, so that it does not turn the text around it. */
export const named = (user, attributes = {}) => make("bdi", attributes, user)

/** The same for plain text: isolated by U+2068 and U+2069. */
export const quoted = (user) => `\u2068${user}\u2069`

/** Sets a text, if it is another one: what does not change is not touched. */
export function text(element, value) {
  if (element.textContent !== value) element.textContent = value
}

export function attribute(element, name, value) {
  if (value === undefined || value === null || value === false) element.removeAttribute(name)
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, String(value))
}

/** Shows or hides an element. If it had the focus, `instead` gets it. */
export function show(element, visible, instead) {
  if (element.hidden === !visible) return
  const had = !visible && element.contains(document.activeElement)
  element.hidden = !visible
  if (had) instead?.focus({ preventScroll: true })
}

/**
 * Makes the children of `parent` those of `items`, in that order, and keeps the elements of items
 * whose key was there before: the focus stays where it is.
 */
export function patch(parent, items, { key, create, update }) {
  const known = (parent.patched ??= new Map())
  const focused = parent.contains(document.activeElement) ? document.activeElement : undefined
  const wanted = new Set(items.map(key))
  for (const [id, element] of known) { // first, or all elements behind one that goes would be moved
    if (!wanted.has(id)) remove(known, id, element)
  }
  let next = parent.firstElementChild
  for (const item of items) {
    const id = key(item)
    let element = known.get(id)
    if (!element) known.set(id, (element = create(item)))
    update(element, item)
    if (element === next) next = next.nextElementSibling
    else parent.insertBefore(element, next)
  }
  if (focused?.isConnected && focused !== document.activeElement) focused.focus({ preventScroll: true }) // it was moved
}

/** Removes an element. If it had the focus, one beside it gets that. */
function remove(known, id, element) {
  known.delete(id)
  const focused = element.contains(document.activeElement)
  const neighbour = element.nextElementSibling ?? element.previousElementSibling
  element.remove()
  if (focused) neighbour?.querySelector("a, button")?.focus({ preventScroll: true })
}

/** Makes a description list say [name, value, class] each, in that order. */
export function pairs(list, facts) {
  patch(list, facts, {
    key: ([name]) => name,
    create: ([name]) => make("div", {}, make("dt", {}, name), make("dd", { dir: "auto" })),
    update: ({ lastChild }, [, value, kind]) => {
      text(lastChild, value)
      attribute(lastChild, "class", kind)
    },
  })
}

const news = []
let telling

/** Tells people who listen to the page what has changed. A flood becomes one sentence a second. */
export function announce(sentence) {
  news.push(sentence)
  telling ??= setTimeout(() => {
    telling = undefined
    const some = news.splice(0)
    const more = some.length - 3
    $("live").textContent = some.slice(-3).join(" ") + (more > 0 ? ` And ${more} more changes.` : "")
  }, 1000)
}

/** Returns a function that calls `work` once, soon, however often it is called before. */
export function once(work) {
  let waits = false
  return () => {
    if (waits) return
    waits = true
    const run = () => {
      waits = false
      work()
    }
    if (document.hidden) setTimeout(run, 200)
    else requestAnimationFrame(run)
  }
}

/** A word with its number: plural(1, "seat") is "1 seat". */
export const plural = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`

/** What the browser keeps for this tab, or nothing where it may not. */
export const store = {
  get(name) {
    try {
      return JSON.parse(sessionStorage.getItem(name) ?? "null")
    } catch {
      return null
    }
  },
  set(name, value) {
    try {
      if (value === null) sessionStorage.removeItem(name)
      else sessionStorage.setItem(name, JSON.stringify(value))
    } catch {
      // Storage is full or forbidden: a reload forgets.
    }
  },
}
