-- Writes the entry of a timer that is about to be set.
--
-- KEYS[1] Timers:due: "<room>:<due>", or "<room>:<due>:<user>" for a member who leaves then → when to look whether it
--         has fired; both in ms since 1970
-- ARGV[1] the room   ARGV[2] in how many ms the timer is due   ARGV[3] how long before that a node looks and gets an
--         alarm, in ms; a timer that is due sooner has one from the beginning
--
-- returns when it is due in µs since 1970; the ms of that are those of no other timer of the room that has an entry
local t = redis.call('TIME')
local due = t[1] * 1000000 + t[2] + ARGV[2] * 1000
local function ms() return string.format('%.0f', math.floor(due / 1000)) end
local before = tonumber(ARGV[2]) > tonumber(ARGV[3]) and ARGV[3] or 0
while redis.call('ZADD', KEYS[1], 'NX', ms() - before, ARGV[1] .. ':' .. ms()) == 0 do
  due = due + 1000
end
return due
