catch (error) {
  results.push({ success: false, error: error.message });
  break;  // ⭐ No further blocks execute
}
