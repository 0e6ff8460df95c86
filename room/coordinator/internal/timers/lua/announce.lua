-- Writes the entry of a timer that is about to be set.
--
-- KEYS[1] Timers:due: "<room>:<due>" → when to look whether it has fired; both in ms since 1970
-- ARGV[1] the room   ARGV[2] in how many ms the timer is due
--
-- returns when it is due in µs since 1970; the ms of that are those of no other timer of the room that has an entry
local t = redis.call('TIME')
local due = t[1] * 1000000 + t[2] + ARGV[2] * 1000
local function ms() return string.format('%.0f', math.floor(due / 1000)) end
while redis.call('ZADD', KEYS[1], 'NX', ms(), ARGV[1] .. ':' .. ms()) == 0 do
  due = due + 1000
end
return due
