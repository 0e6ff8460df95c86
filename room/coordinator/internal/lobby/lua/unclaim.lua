-- Gives back the seats of a claim, after the join has failed without reading the room. If nobody has joined the room
-- and nobody else has claimed seats there, removes it from the index: no list has ever had it.
--
-- KEYS[1..4] of the index   KEYS[5] Lobby:Match:<key>   KEYS[6..] of labels that the room may have
-- ARGV[1] room   ARGV[2] how many seats   ARGV[3] the capacity of a room for which the index has 0
-- returns {1 if the room was removed, else 0; labels whose key is missing}
index_begin()
if redis.call('GET', KEYS[5]) == ARGV[1] then
  redis.call('DEL', KEYS[5])
end
local epoch, members, capacity, closed, labels =
  string.match(redis.call('HGET', KEYS[1], ARGV[1]) or '', '^(%S+) %S+ %S+ (%S+) (%S+) (%S+) (%S+)')
if closed ~= '0' or labels == '{}' then
  return {0, {}}
elseif not index_key(labels) then
  return {0, {labels}}
end
capacity = tonumber(capacity ~= '0' and capacity or ARGV[3])
local free = tonumber(redis.call('ZSCORE', index_key(labels), ARGV[1]) or 0) + ARGV[2]
if epoch == '-' and free >= capacity then
  index_forget(ARGV[1], labels)
  return {1, {}}
end
-- note.lua may have written the room since, with these seats free.
index_free(labels, ARGV[1], math.min(free, capacity - members))
return {0, {}}
