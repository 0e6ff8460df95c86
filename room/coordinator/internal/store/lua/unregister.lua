-- Deletes the record of a node in a room where it has no members.
--
-- KEYS[1] Room:<id>:Users   KEYS[2] Room:<id>:Meta
-- ARGV[1] the node as in the JSON of its members, "node":"<node>"
-- ARGV[2] by:<node>         ARGV[3] that field when the caller looked, so that a late
--                           request deletes no later record
--
-- returns {state, epoch or false, version or false, 1 if the room is whole or 0}
--         state  'member'  the node has members
--                'gone'    there is no record of the node
--                else the value of by:<node>: ask again with it
local at = redis.call('HMGET', KEYS[2], 'epoch', 'version', 'members', ARGV[2])
local members = redis.call('HVALS', KEYS[1])
local state, whole = 'gone', tonumber(at[3] or 0) == #members and 1 or 0
for _, member in ipairs(members) do
  if string.find(member, ARGV[1], 1, true) then
    state = 'member'
    break
  end
end
if state == 'gone' and at[4] and at[4] ~= ARGV[3] then
  state = at[4]
elseif state == 'gone' and at[4] then
  redis.call('HDEL', KEYS[2], ARGV[2])
end
return {state, at[1], at[2], whole}
