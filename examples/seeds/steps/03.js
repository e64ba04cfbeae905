const workflows = await trigger('workflow::list', {});
