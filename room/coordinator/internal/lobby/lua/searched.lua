-- Records that a search which began in a life of the index has found all rooms.
--
-- KEYS[1..4] of the index   ARGV[1] run
-- returns {1}, or {0} if that life is over
if index_begin() ~= ARGV[1] then
  return {0}
end
redis.call('HSET', KEYS[4], 'whole', 1)
return {1}
