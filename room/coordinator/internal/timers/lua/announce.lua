-- Writes the entry of a timer that is about to be set.
--
-- KEYS[1] Timers:due: "<room>:<due>" → when to look whether it has fired; both in ms since 1970
-- ARGV[1] the room   ARGV[2] in how many ms the timer is due
--
-- returns when it is due, which is so of no other timer of the room that has an entry
local t = redis.call('TIME')
local due = t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[2]
while redis.call('ZADD', KEYS[1], 'NX', string.format('%.0f', due), ARGV[1] .. ':' .. string.format('%.0f', due)) == 0 do
  due = due + 1
end
return due
