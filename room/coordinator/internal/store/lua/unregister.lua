-- Deletes the record of a node in a room where it has no members.
--
-- KEYS[1] Room:<id>:Users   KEYS[2] Room:<id>:Meta
-- ARGV[1] the node as in the JSON of its members, "node":"<node>"
-- ARGV[2] by:<node>         ARGV[3] that field when the caller looked, so that a late
--                           request deletes no later record
--
-- returns 'member'  the node has members
--         'gone'    there is no record of the node
--         else the value of by:<node>: ask again with it
for _, member in ipairs(redis.call('HVALS', KEYS[1])) do
  if string.find(member, ARGV[1], 1, true) then
    return 'member'
  end
end
local by = redis.call('HGET', KEYS[2], ARGV[2])
if by and by ~= ARGV[3] then
  return by
elseif by then
  redis.call('HDEL', KEYS[2], ARGV[2])
end
return 'gone'
