-- Releases several locks, each if possible to the next waiter of the same process.
-- KEYS[1..3] the first lock   KEYS[4..6] the second   and so on
-- ARGV[1] publish   ARGV[2] claim   then for each lock: its token, the waiter's token or
-- empty, and the waiter's TTL in ms
-- returns for each lock what lock_pass returns, or the error of a release that failed
local replies = {}
for i = 3, #ARGV, 3 do
  local next = ARGV[i + 1] ~= '' and ARGV[i + 1]
  local passed, reply = pcall(lock_pass, i - 2, ARGV[i], next, next and ARGV[i + 2])
  if not passed and type(reply) ~= 'table' then
    reply = redis.error_reply(reply)
  end
  replies[i / 3] = reply
end
return replies
