-- Says whether the caller has to compare the index with all rooms: now and then it chooses one of the nodes that ask.
-- Removes rooms that have been gone for so long that every node knows, and rooms that nobody has joined after all.
--
-- KEYS[1..4] of the index   KEYS[5..] of labels that such rooms have
-- ARGV[1] ms between two searches   ARGV[2] ms until another one begins if not all rooms are in the index
-- ARGV[3] ms to remember rooms that are gone
-- returns {run, or false; 1 if there may be more to remove, else 0; labels whose keys are missing}
local run, now = index_begin()
local gone = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now - ARGV[3], 'LIMIT', 0, 1000)
local more, missing = #gone == 1000 and 1 or 0, {}
for _, id in ipairs(gone) do
  local number = redis.call('ZSCORE', KEYS[2], id)
  if number and tonumber(number) > tonumber(redis.call('HGET', KEYS[4], 'floor') or 0) then
    redis.call('HSET', KEYS[4], 'floor', number)
  end
  local labels = string.match(redis.call('HGET', KEYS[1], id) or '', '^%S+ %S+ %S+ %S+ %S+ %S+ (%S+)')
  if not index_forget(id, labels) then
    missing[#missing + 1] = labels
  end
end
local is = redis.call('HMGET', KEYS[4], 'searched', 'whole')
-- Also if the clock was set back.
if #missing > 0 or is[1] and math.abs(now - is[1]) < tonumber(is[2] and ARGV[1] or ARGV[2]) then
  return {false, more, missing}
end
redis.call('HSET', KEYS[4], 'searched', string.format('%.0f', now))
return {run, more, missing}
